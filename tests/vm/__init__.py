"""Tests in virtual machines, for kernel modules and NICs that the host may lack."""
