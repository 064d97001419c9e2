"""The generated pages of docs/reference whose facts are tables of the code: functions, flags, commands."""
