"""What users of packet generators and switches asked in public, as small tests.

Each test is named after what the user wanted. Its docstring says what was asked, where, and why the
value that it expects is the right one. Frames and files are made here (`frames.py`); nobody else's
files are kept. Expected values come from arithmetic, from a pcap reader of the tests, from counters
of the kernel or from other programs: never from the engine that is tested.
"""
