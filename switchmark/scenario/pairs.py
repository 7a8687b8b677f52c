"""The scenario `pairs`: N sender/receiver or client/server pairs on one host.

Each application is in a separate node with one port. All ports belong to the switch under test. If
the switch is `direct`, each pair is connected directly. The name is `pairs-N`.
"""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.ENVIRONMENT, NodePlace.ENVIRONMENT)
