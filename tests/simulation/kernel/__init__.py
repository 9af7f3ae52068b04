"""The simulated machine: threads, event loops, clocks and a network, decided by one seed.

Everything runs in one thread of this program. A simulated thread is a greenlet. `Kernel.run`
chooses the ready thread that goes on, and moves the clock when no thread is ready. Code under test
runs unchanged: `patching.install` replaces clocks, threads and chance by simulated ones.
"""
