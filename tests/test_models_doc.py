"""docs/MODELS.md is what tools/models-doc writes, and no architecture is without a case that computes it."""

import pathlib
import subprocess
import sys

try:
    import gguf  # noqa: F401
    import numpy  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

tool = pathlib.Path(__file__).resolve().parent.parent / "tools" / "models-doc"
sys.exit(subprocess.run([sys.executable, str(tool), "--check"]).returncode)
