"""The commands of `narrative-twins`: functions, which `options.py` turns into commands."""
