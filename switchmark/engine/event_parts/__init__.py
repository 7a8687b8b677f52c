"""What the engine's events are made of, by what a part tells of a trial.

`events.schema.json` says what every field means, and in which unit. A field that the schema lets a
line leave out is None here when it was left out.
"""
