"""Who calls: tenant and products from the verified authorizer, never from the body or a plain header."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fetcher.core.tenants import DEFAULT_TENANT, TENANT
from fetcher.errors import InvalidRequestError, Problem
from fetcher.settings import Settings

_PRODUCT = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class Caller:
    """The tenant, who it is for the audit trail, and the products the token is limited to; None means all."""

    tenant: str
    who: str
    products: frozenset[str] | None = None

    def may_see(self, product: str | None) -> bool:
        """Whether things of this product exist for the caller at all."""
        return self.products is None or product in self.products

    def check_product(self, product: str, problem: Problem) -> None:
        """Raise FET-2013 when the caller may not make things of this product."""
        if not self.may_see(product):
            raise InvalidRequestError(problem.detail, code="FET-2013", problems=(problem,))


def caller_of(context: Mapping[str, Any], settings: Settings) -> Caller:
    """Read the caller from the request context. Raises FET-2008 when the token names no usable tenant."""
    authorizer = context.get("authorizer") or {}
    if settings.authorizer != "jwt":
        principal = (authorizer.get("iam") or {}).get("userArn") or "nobody"
        return Caller(DEFAULT_TENANT, f"{settings.authorizer}:{principal}")
    claims = claims_of(context)
    tenant = str(claims.get(settings.tenant_claim, ""))
    if not TENANT.fullmatch(tenant):
        raise InvalidRequestError("the token names no tenant", code="FET-2008")
    products = claims.get(settings.products_claim)
    allowed = None if products is None else frozenset(str(products).lower().split())
    return Caller(tenant, f"jwt:{claims.get('sub') or 'unnamed'}", allowed)


def claims_of(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the claims that the gateway verified."""
    claims: Mapping[str, Any] = ((context.get("authorizer") or {}).get("jwt") or {}).get("claims") or {}
    return claims


def product_of(header: str | None) -> str:
    """Check and normalise `X-Product-Name`: trimmed, lower-case, at most 100 characters."""
    text = (header or "").strip()
    if not _PRODUCT.fullmatch(text):
        detail = "X-Product-Name is required: 1 to 100 letters, digits, '-' or '_'"
        raise InvalidRequestError(detail, code="FET-0403", problems=(Problem("/headers/X-Product-Name", detail),))
    return text.lower()
