"""What is measured, by which method and for how long."""

from __future__ import annotations

from switchmark.campaign import key_values as read
from switchmark.campaign import model, values
from switchmark.campaign.key import Key
from switchmark.campaign.model import Dimension, Method

KEYS: tuple[Key, ...] = (
    Key(
        "dimension",
        "dimension",
        "what is measured: `throughput` (forwarded frames/s, sender to receiver) or `latency` "
        "(round-trip time, client and server)",
        lambda text, _known: Dimension(values.choice(text, tuple(Dimension), "dimension")),
        str,
        "throughput, latency",
        letter="D",
    ),
    Key(
        "method",
        "method",
        "how a throughput is found: `plain` (one run at the set rate), `ndr-pdr`, `r-plus`, "
        "`plateau`, `loss-vs-load`, `back-to-back`, `soak`, `recovery`, `reconfiguration` or "
        "`calibrate` "
        "(docs/methods.md); `rate` then bounds the load, and `duration` is one trial's",
        lambda text, _known: Method(values.choice(text, tuple(Method), "method")),
        str,
        "ndr-pdr",
    ),
    Key(
        "goals",
        "goals",
        "what an `ndr-pdr` search looks for: `csit`, `rfc2544`, `tst009` or `quick`",
        lambda text, _known: values.choice(text, model.GOALS, "preset of goals"),
        str,
        "rfc2544",
    ),
    Key(
        "budget",
        "budget_s",
        "the time a method may take, its own overhead included; `auto`: the method's default",
        lambda text, known: None if text == "auto" else read.time(text, known),
        lambda value: "auto" if value is None else values.format_seconds(value),
        "5m",
        unit="time",
    ),
    Key(
        "duration",
        "duration_s",
        "how long a trial lasts (a latency trial's warm-up comes before it)",
        read.time,
        values.format_seconds,
        "5s",
        unit="time",
    ),
    Key(
        "interval",
        "interval_s",
        "length of one sample inside a trial",
        read.time,
        values.format_seconds,
        "200ms",
        unit="time",
    ),
)
