"""The PDDeployment API as frozen pydantic models; the CRD is generated from them (crd.py)."""
