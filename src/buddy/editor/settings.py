"""The settings of a session that an editor shows and changes: model, approval policy and plan mode.

Newer editors read configuration options, older ones modes; both say the same.
"""

from collections.abc import Sequence

from msgspec import Struct

from buddy.editor.json_rpc import INVALID_PARAMS, Json, RpcError
from buddy.protocol.codes import Policy
from buddy.protocol.events import ApprovalPolicyChanged, EventBody, ModelSwitched, RunStarted, SessionStarted
from buddy.protocol.history_requests import ProfileInfo
from buddy.protocol.requests import SetApprovalPolicy, SwitchModel

MODEL, POLICY, PLAN = "model", "policy", "plan"
ON, OFF = "on", "off"

_POLICIES: dict[Policy, tuple[str, str]] = {
    "ask": ("Ask", "Ask before everything that is not read-only"),
    "auto": ("Auto", "Run what stays in the sandbox, ask for the rest"),
    "all": ("Approve all", "Run everything without asking"),
    "none": ("Deny", "Deny everything that would need approval"),
}
_PLAN = ("Plan", "Only read, and propose what to do")


class SessionSettings(Struct):
    policy: str = "ask"
    plan: bool = False
    profile: str = ""
    model: str = ""
    profiles: Sequence[ProfileInfo] = ()
    has_booleans: bool = False
    """Whether the editor knows options that are on or off."""

    def fold(self, body: EventBody) -> None:
        """Apply an event."""
        match body:
            case SessionStarted():
                options = body.options
                self.policy = ((options.approval_policy if options else None) or "ask").partition(":")[0]
                self.plan = bool(options and options.plan)
            case ApprovalPolicyChanged():
                self.policy = body.policy
                self.plan = self.plan if body.plan is None else body.plan
            case RunStarted():
                self.profile = body.options.profile or self.profile
                self.model = body.options.model or self.model
            case ModelSwitched():
                self.profile = body.after.get("profile", self.profile)
                self.model = body.after.get("model", self.model)
            case _:
                pass  # no setting

    @property
    def mode(self) -> str:
        return "plan" if self.plan else self.policy

    def modes(self) -> Json:
        available = [{"id": mode, "name": name, "description": text} for mode, (name, text) in _POLICIES.items()]
        available.append({"id": "plan", "name": _PLAN[0], "description": _PLAN[1]})
        if self.mode not in {entry["id"] for entry in available}:
            available.append({"id": self.mode, "name": _window(self.policy)[0], "description": _window(self.policy)[1]})
        return {"currentModeId": self.mode, "availableModes": available}

    def options(self) -> list[Json]:
        return [self._model_option(), self._policy_option(), self._plan_option()]

    def _model_option(self) -> Json:
        values = [{"value": one.name, "name": _model_name(one)} for one in self.profiles if not one.problem]
        if self._model_value not in {entry["value"] for entry in values}:
            values.append({"value": self._model_value, "name": self.model or self.profile or "default"})
        return _select(MODEL, "Model", MODEL, self._model_value, values)

    @property
    def _model_value(self) -> str:
        found = next((one for one in self.profiles if one.name == self.profile), None)
        # A script is the same, whatever its model is called.
        is_profiles = found is not None and (found.model in ("", self.model) or found.api == "scripted")
        return self.profile if is_profiles or not self.model else f"{self.profile}/{self.model}"

    def _policy_option(self) -> Json:
        values = [{"value": mode, "name": name, "description": text} for mode, (name, text) in _POLICIES.items()]
        if self.policy not in _POLICIES:
            name, text = _window(self.policy)
            values.append({"value": self.policy, "name": name, "description": text})
        return _select(POLICY, "Approvals", "mode", self.policy, values)

    def _plan_option(self) -> Json:
        if self.has_booleans:
            option: Json = {"id": PLAN, "name": "Plan mode", "type": "boolean", "currentValue": self.plan}
        else:
            values = [{"value": OFF, "name": "Off"}, {"value": ON, "name": "On", "description": _PLAN[1]}]
            option = _select(PLAN, "Plan mode", "", ON if self.plan else OFF, values)
        return {**option, "description": _PLAN[1]}


def request_for_mode(mode: str) -> SetApprovalPolicy:
    if mode == "plan":
        return SetApprovalPolicy(plan=True)
    return SetApprovalPolicy(policy=_policy(mode), plan=False)


def request_for_option(option: str, value: str | bool) -> SetApprovalPolicy | SwitchModel:
    match option, value:
        case "model", str():
            profile, slash, model = value.partition("/")
            return SwitchModel(profile, model) if slash else SwitchModel(profile)
        case "policy", str():
            return SetApprovalPolicy(policy=_policy(value))
        case "plan", bool() | "on" | "off":
            return SetApprovalPolicy(plan=value in (True, ON))
        case _:
            available = f"{MODEL}, {POLICY} and {PLAN}"
            raise RpcError(INVALID_PARAMS, f"invalid option {option[:40]!r} = {value!r}; the options are {available}")


def _policy(name: str) -> Policy:
    for policy in _POLICIES:
        if policy == name:
            return policy
    raise RpcError(INVALID_PARAMS, f"unknown mode {name[:40]!r}. Available: {', '.join((*_POLICIES, 'plan'))}")


def _window(policy: str) -> tuple[str, str]:
    return f"Approve all ({policy})", "Run everything without asking, for a limited time"


def _model_name(profile: ProfileInfo) -> str:
    return profile.name if profile.model in ("", profile.name) else f"{profile.model} ({profile.name})"


def _select(option: str, name: str, category: str, current: str, values: list[dict[str, str]]) -> Json:
    found: Json = {"id": option, "name": name, "type": "select", "currentValue": current, "options": values}
    return {**found, "category": category} if category else found
