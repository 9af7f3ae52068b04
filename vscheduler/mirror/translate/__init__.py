"""Translation from wire objects to the model, a module for each kind of object."""
