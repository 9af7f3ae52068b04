"""What a plugin author imports: contracts, the hook table."""
