"""The commands of `narrative-twins`, one module each, with functions that add the options and run
the command."""
