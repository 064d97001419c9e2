"""The CPU compiler: a module becomes one native program."""
