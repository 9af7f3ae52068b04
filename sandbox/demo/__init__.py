"""`vscheduler demo`: gangs and fair shares on a real control plane on this machine."""
