"""`python -m sandbox demo`: gangs and fair shares on a real control plane on this machine."""
