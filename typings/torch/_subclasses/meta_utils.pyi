from typing import Any

MetaTensorDescriber: Any
