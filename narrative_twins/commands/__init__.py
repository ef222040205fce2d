"""The commands of `narrative-twins`: a module for each, with a function that `signatures.py` turns
into a command; and modules with the options and steps that several commands share."""
