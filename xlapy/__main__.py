"""`python -m xlapy`: the command line."""

from xlapy.tools.command_line import main

if __name__ == "__main__":
    main()
