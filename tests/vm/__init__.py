"""Tests in virtual machines: what needs a kernel module or a NIC that the host may lack."""
