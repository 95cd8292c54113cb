"""Check the keys of an encrypted store: the one that wraps, and where the wrapped ones lie."""

from http import HTTPStatus

from gcp_adk_store.doctor.findings import Answer, Finding, KeysFacts, Place, fail, ok, skipped, warn


def encryption_key(keys: KeysFacts) -> Finding:
    """Check that the key wraps and unwraps."""
    return fail(keys.failure) if keys.failure else ok(f"{keys.key} wraps and unwraps")


def keys_database(keys: KeysFacts, place: Place) -> Finding:
    """Check that nothing keeps the keys of erased users, and that nobody deletes those of the others."""
    of_keys = f"--database={keys.database} --project={place.project}"
    if not keys.answers:
        return skipped("an emulator has no backups", aside="on an emulator")
    database = keys.answers["database"]
    if database.status == HTTPStatus.NOT_FOUND:
        return fail(
            f"the database {keys.database} does not exist",
            f"gcloud firestore databases create {of_keys} --location=LOCATION --delete-protection",
        )
    unknown = [name for name, answer in keys.answers.items() if not answer.is_ok]
    if unknown:
        told = ", ".join(f"{name}: {_why(keys.answers[name])}" for name in unknown)
        return skipped(f"not everything could be looked at ({told})")
    wrong = []
    if database.body.get("pointInTimeRecoveryEnablement") == "POINT_IN_TIME_RECOVERY_ENABLED":
        command = f"gcloud firestore databases update {of_keys} --no-enable-pitr"
        wrong.append(("point-in-time recovery is on", command))
    for schedule in keys.answers["schedules"].body.get("backupSchedules") or ():
        named = f"--backup-schedule={str(schedule.get('name', '')).rpartition('/')[2]}"
        wrong.append(("backups are made", f"gcloud firestore backups schedules delete {of_keys} {named}"))
    if wrong:
        told = " and ".join(dict.fromkeys(says for says, _ in wrong))
        return fail(
            f"{told} of {keys.database}: the keys of erased users stay", *(command for _, command in wrong)
        )
    if database.body.get("deleteProtectionState") != "DELETE_PROTECTION_ENABLED":
        return warn(
            f"one command deletes {keys.database}, and with it all that is encrypted",
            f"gcloud firestore databases update {of_keys} --delete-protection",
            terraform='google_firestore_database: delete_protection_state = "DELETE_PROTECTION_ENABLED"',
        )
    return ok(f"{keys.database} has no backups, keeps an hour of history, and is protected from deletion")


def _why(answer: Answer) -> str:
    if answer.status == HTTPStatus.FORBIDDEN:
        return "this identity may not look"
    return answer.reason or f"the API answered {answer.status}"
