"""The platforms that ship with xlapy."""
