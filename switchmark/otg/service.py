"""The operations of the API, independent of HTTP and gRPC: documents in, documents out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from switchmark.otg import types
from switchmark.otg.answers import flow_metrics, port_metrics
from switchmark.otg.capture import RunningCapture, check_captures, start_capture, with_fcs
from switchmark.otg.plan import plan_flows
from switchmark.otg.ports import TrafficPort
from switchmark.otg.refusal import Refused, check_choices, chosen, from_validation
from switchmark.otg.traffic import Traffic
from switchmark.version import __version__

# Clients that check it require that their own version satisfies this condition. Within a major
# version fields are only added, and the server refuses unknown fields by their path.
ACCEPTED_VERSIONS = ">=1.0.0,<2.0.0"
T = TypeVar("T", bound=types.Part)
Answer = dict[str, Any] | bytes


class Service:
    """The state of a server: its ports, the configuration in force, and the traffic."""

    def __init__(self, ports: Mapping[str, TrafficPort], traffic: Traffic) -> None:
        self._ports = ports
        self._traffic = traffic
        self._config = types.Config()
        self._captures: dict[str, RunningCapture] = {}
        self._lock = threading.RLock()
        self.routes: dict[tuple[str, str], Callable[[bytes], Answer]] = {
            ("POST", "/config"): self._set_config,
            ("GET", "/config"): lambda _: self._config.model_dump(mode="json", exclude_unset=True),
            ("POST", "/control/state"): self._set_state,
            ("POST", "/monitor/metrics"): self._metrics,
            ("POST", "/monitor/capture"): self._capture,
            ("GET", "/capabilities/version"): lambda _: _plain(
                types.Version(
                    api_spec_version=ACCEPTED_VERSIONS,
                    sdk_version=types.VERSION,
                    app_version=__version__,
                )
            ),
            ("GET", "/switchmark/results"): lambda _: self._results(),
        }

    def close(self) -> None:
        """End the captures."""
        for capture in self._captures.values():
            capture.stop()

    def _set_config(self, body: bytes) -> Answer:
        if not body.strip():
            raise Refused("document: is empty; send {} for a configuration without ports")
        config = _read(types.Config, body)
        plans = plan_flows(config, self._ports)
        check_captures(config, self._ports, plans)
        with self._lock:
            self._traffic.configure(plans)
            self.close()
            self._captures.clear()
            self._config = config
        return _plain(types.Warning(warnings=[]))

    def _set_state(self, body: bytes) -> Answer:
        request = _read(types.ControlState, body)
        if chosen(request) == "traffic":
            if request.traffic is None or request.traffic.flow_transmit is None:
                raise Refused("traffic.flow_transmit: is missing")
            transmit = request.traffic.flow_transmit
            change = self._traffic.start if transmit.state == "start" else self._traffic.stop
            change(transmit.flow_names)
        else:
            if request.port is None or request.port.capture is None:
                raise Refused("port.capture: is missing")
            self._set_capture(request.port.capture)
        return _plain(types.Warning(warnings=self._traffic.take_warnings()))

    def _set_capture(self, request: types.StatePortCapture) -> None:
        with self._lock:
            configured = {
                name: capture
                for capture in self._config.captures or ()
                for name in capture.port_names
            }
            names = request.port_names or list(configured)
            for name in names:
                if name not in configured:
                    raise Refused(
                        f"port.capture.port_names: {name} is not in the captures of the "
                        "configuration; add it there"
                    )
            for name in names:
                if name in self._captures:
                    self._captures[name].stop()
                if request.state == "start":
                    device = self._port(name).device
                    self._captures[name] = start_capture(
                        self._traffic.session, name, device, configured[name]
                    )

    def _port(self, name: str) -> TrafficPort:
        location = next(p.location for p in self._config.ports or () if p.name == name)
        return self._ports[location or ""]

    def _metrics(self, body: bytes) -> Answer:
        request = _read(types.MetricsRequest, body)
        with self._traffic.lock:
            running = self._traffic.running
            if chosen(request) == "flow":
                flows = flow_metrics(request.flow, self._traffic.plans, running)
                return _plain(types.MetricsResponse(choice="flow_metrics", flow_metrics=flows))
            capturing = [name for name, capture in self._captures.items() if not capture.is_over]
            ports = port_metrics(
                request.port, self._config, self._ports, running.values(), capturing
            )
            return _plain(types.MetricsResponse(choice="port_metrics", port_metrics=ports))

    def _capture(self, body: bytes) -> Answer:
        port = _read(types.CaptureRequest, body).port_name
        with self._lock:
            if port not in self._captures:
                raise Refused(f"port_name: there is no capture of {port}; start one")
            return with_fcs(self._captures[port].file.read_bytes())

    def _results(self) -> Answer:
        with self._traffic.lock:
            return {name: flow.as_printed() for name, flow in self._traffic.running.items()}


def _read(kind: type[T], body: bytes) -> T:
    try:
        document = kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise from_validation(error) from None
    check_choices(document)
    return document


def _plain(part: types.Part) -> dict[str, Any]:
    return part.model_dump(mode="json", exclude_none=True)
