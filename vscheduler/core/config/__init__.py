"""The scheduler configuration as plain data, made into a Policy or a list of problems."""
