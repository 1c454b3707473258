"""Who is a tenant: by name, and `default` where there is only one."""

import re

DEFAULT_TENANT = "default"
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,255}")
"""No `#` and no `/`: a name is a part of keys in tables and in the bucket."""
