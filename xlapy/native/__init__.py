"""Native building blocks below the compiler and the runtime."""
