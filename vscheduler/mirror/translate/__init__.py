"""From the wire to the model, one kind of object a module."""
