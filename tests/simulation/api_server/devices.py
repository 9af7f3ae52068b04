"""What the API server refuses of objects about devices (dynamic resource allocation)."""

from tests.simulation.api_server import kinds
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.wire import Cause, Object

RESERVATIONS_MAX = 256
IMMUTABLE = "field is immutable"


def problems(kind: Kind, body: Object) -> list[Cause]:
    """What is wrong with a claim."""
    if kind is not kinds.RESOURCE_CLAIMS:
        return []
    causes = []
    requests = ((body.get("spec") or {}).get("devices") or {}).get("requests") or ()
    for number, each in enumerate(requests):
        if not each.get("exactly") and not each.get("firstAvailable"):
            where = f"spec.devices.requests[{number}]"
            text = 'Required value: exactly one of "exactly" or "firstAvailable" is required'
            causes.append(Cause(where, text, "FieldValueRequired"))
    status = body.get("status") or {}
    reserved = status.get("reservedFor") or ()
    if reserved and not status.get("allocation"):
        text = "Forbidden: may not be specified when `allocated` is not set"
        causes.append(Cause("status.reservedFor", text, "FieldValueForbidden"))
    if len(reserved) > RESERVATIONS_MAX:
        text = f"Too many: {len(reserved)}: must have at most {RESERVATIONS_MAX} items"
        causes.append(Cause("status.reservedFor", text, "FieldValueTooMany"))
    return causes


def changes(kind: Kind, new: Object, old: Object) -> list[Cause]:
    """What an update of a claim may not change."""
    if kind is not kinds.RESOURCE_CLAIMS:
        return []
    causes = []
    if new.get("spec") != old.get("spec"):
        causes.append(Cause("spec", f"Invalid value: {new.get('spec')}: {IMMUTABLE}"))
    before, after = old.get("status") or {}, new.get("status") or {}
    known, wanted = before.get("allocation"), after.get("allocation")
    if known and wanted and known != wanted:
        causes.append(Cause("status.allocation", f"Invalid value: {wanted}: {IMMUTABLE}"))
    uids = {each["uid"] for each in before.get("reservedFor") or ()}
    added = [each for each in after.get("reservedFor") or () if each["uid"] not in uids]
    if added and "deletionTimestamp" in old["metadata"]:
        text = (
            "Forbidden: new entries may not be added while `deallocationRequested` or "
            "`deletionTimestamp` are set"
        )
        causes.append(Cause("status.reservedFor", text, "FieldValueForbidden"))
    return causes
