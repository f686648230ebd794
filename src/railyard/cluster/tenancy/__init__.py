"""Who shares a cluster: which ports are whose, by what they are kept apart, and what that takes of switches."""

from railyard.cluster.tenancy.mechanism import MECHANISMS, Mechanism
from railyard.cluster.tenancy.tenancy import NOBODY, Tenancy, TenancySpec, Tenant, TenantSpec, check_network, tenancy_of

__all__ = [
    "MECHANISMS",
    "NOBODY",
    "Mechanism",
    "Tenancy",
    "TenancySpec",
    "Tenant",
    "TenantSpec",
    "check_network",
    "tenancy_of",
]
