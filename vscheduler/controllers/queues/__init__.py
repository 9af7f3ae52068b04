"""The Queue controller: status, finalizers, open and close."""
