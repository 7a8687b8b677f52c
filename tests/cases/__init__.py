"""Public questions of users of packet generators and switches, as small tests.

Each test is named after the user's request. Its docstring states the question, its source, and why
the expected value is right. Frames and files are made here (`frames.py`); files of others are not
stored. Expected values come from arithmetic, from a pcap reader of the tests, from counters of the
kernel or from other programs, but never from the tested engine.
"""
