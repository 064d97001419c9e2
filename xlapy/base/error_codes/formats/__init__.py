"""The codes of errors in texts and files of programs."""
