"""The Queue controller: status, finalizers, opening and closing."""
