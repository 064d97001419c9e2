"""How much memory a program needs in an order of its instructions, and orders that need little."""
