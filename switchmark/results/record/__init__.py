"""The record of one trial: its one schema, and every name that a reader of records needs."""

from switchmark.model.placement import Placement
from switchmark.results.record.certificate import Certificate, CertificateNote, CertifiedFigure
from switchmark.results.record.cost import CpuCost
from switchmark.results.record.document import L1_OVERHEAD_BYTES, SCHEMA_VERSION, Figures, Record
from switchmark.results.record.figures import (
    Direction,
    DirectionLatency,
    DirectionLoads,
    Latency,
    LoadBeside,
    PairLoads,
    Throughput,
)
from switchmark.results.record.method_result import (
    DecidedBy,
    GoalBounds,
    LatencyAtLoad,
    MethodFigure,
    MethodResult,
    MethodTrial,
)
from switchmark.results.record.reconciliation import (
    FramePath,
    Place,
    Reconciliation,
    Stage,
)
from switchmark.results.record.runs import (
    Attempt,
    BareWire,
    ClockOffset,
    CpuQuota,
    EngineRun,
    FarHost,
    InstrumentNote,
    Interval,
    Neighbour,
    OutlierSample,
    SteadyRun,
    Timing,
    Trim,
    VnfRun,
)
from switchmark.results.record.trust import (
    Limit,
    TrialVerdict,
    Verification,
)

__all__ = [
    "L1_OVERHEAD_BYTES",
    "SCHEMA_VERSION",
    "Attempt",
    "BareWire",
    "Certificate",
    "CertificateNote",
    "CertifiedFigure",
    "ClockOffset",
    "CpuCost",
    "CpuQuota",
    "DecidedBy",
    "Direction",
    "DirectionLatency",
    "DirectionLoads",
    "EngineRun",
    "FarHost",
    "Figures",
    "FramePath",
    "GoalBounds",
    "InstrumentNote",
    "Interval",
    "Latency",
    "LatencyAtLoad",
    "Limit",
    "LoadBeside",
    "MethodFigure",
    "MethodResult",
    "MethodTrial",
    "Neighbour",
    "OutlierSample",
    "PairLoads",
    "Place",
    "Placement",
    "Reconciliation",
    "Record",
    "Stage",
    "SteadyRun",
    "Throughput",
    "Timing",
    "TrialVerdict",
    "Trim",
    "Verification",
    "VnfRun",
]
