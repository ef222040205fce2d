"""The commands of `narrative-twins`, one a module: each adds its options to the parser, and runs."""
