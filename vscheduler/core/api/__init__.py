"""The API for plugin authors: contracts, the hook table and views."""
