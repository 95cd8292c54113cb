"""Make random tests independent of how busy the machine is."""

from hypothesis import HealthCheck, settings

# A shared machine stalls; how long an example takes says nothing about the code.
settings.register_profile(
    "unit", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("unit")
