"""The search for nodes on which a whole gang fits, where placing pod by pod has failed."""
