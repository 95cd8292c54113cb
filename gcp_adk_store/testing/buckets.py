"""Make buckets on a Cloud Storage emulator."""


def create_bucket(name: str, address: str) -> None:
    """Make a bucket on the emulator at *address*, unless it is there."""
    # Google's client takes half a second to import: only where it is used.
    from google.api_core.exceptions import Conflict  # noqa: PLC0415
    from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415
    from google.cloud.storage import Client  # noqa: PLC0415

    client = Client(
        project="demo-adk-store",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": address if "://" in address else f"http://{address}"},
    )
    try:
        client.create_bucket(name)
    except Conflict:
        return
    finally:
        client.close()
