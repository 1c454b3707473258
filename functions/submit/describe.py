"""Write the API's description: `python -m submit.describe > infra/openapi.json`."""

import sys

from submit.app import described

if __name__ == "__main__":
    sys.stdout.write(described())
