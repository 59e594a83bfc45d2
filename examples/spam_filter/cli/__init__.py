"""The commands: arguments in, tables out."""
