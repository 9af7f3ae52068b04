"""Volcano's behaviour where ours differs: all that `compatibility: volcano` brings back."""
