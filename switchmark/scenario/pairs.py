"""The scenario `pairs`: N sender/receiver or client/server pairs on one host.

Each application is in a node of its own with one port. All ports go to the one switch under
test, or, when the switch is `direct`, each pair is joined by a wire. `pairs-N` says how many.
"""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.ENVIRONMENT, NodePlace.ENVIRONMENT)
