"""The command line `xlapy`: one module or folder per command."""
