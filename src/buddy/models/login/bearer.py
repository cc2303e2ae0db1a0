"""The tokens of a login as credentials: refreshed in time, shared with every other process of this user.

Invariants:
- a token is refreshed when less than 90 seconds of it are left, and again if a server refuses it;
- of all processes that want to refresh, one does, under the lock; the others find its tokens in the file;
- a refresh runs to its end in a thread, even if the run that needed it is cancelled: an issuer that returns a new
  refresh token has revoked the old one, and the new one must reach the disk.
"""

import asyncio
import base64
import time
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from buddy.errors import ProviderError, UserError
from buddy.models.login.issuer import Issuer, find_endpoints
from buddy.models.login.oauth import LoginRefused, open_client, post_form, read_tokens
from buddy.models.login.tokens import AuthFile, LoginTokens

EARLY_SECONDS = 90
TRIAL_SECONDS = 60


def _ignore(_: str) -> None:
    """For callers that need not know of new tokens."""


class Login:
    """Credentials of a profile that logs in. `learned` is called with every token, so that it can be hidden."""

    def __init__(
        self,
        profile: str,
        issuer: Issuer,
        auth: AuthFile,
        *,
        learned: Callable[[str], None] = _ignore,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._profile = profile
        self._issuer = issuer
        self._auth = auth
        self._learned = learned
        self._clock = clock
        self._tokens: LoginTokens | None = None
        self._refreshed: tuple[str, float] = "", 0.0

    async def headers(self) -> Mapping[str, str]:
        tokens = self._tokens
        if tokens is None or self._left(tokens) < EARLY_SECONDS:
            tokens = self._keep(await asyncio.to_thread(self._current))
        return {"authorization": f"Bearer {tokens.access_token}"} | self._account(tokens)

    async def renew(self) -> bool:
        tokens, self._tokens = self._tokens, None
        if tokens is None:
            return True
        # If a token that was just refreshed is refused again, another refresh will not help; for an older one it may.
        token, at = self._refreshed
        if tokens.access_token == token and self._clock() - at < TRIAL_SECONDS:
            raise self._login_required("the login is no longer valid")
        refreshed = self._keep(await asyncio.to_thread(self._refresh, tokens.access_token))
        self._refreshed = refreshed.access_token, self._clock()
        return True

    def _keep(self, tokens: LoginTokens) -> LoginTokens:
        if tokens != self._tokens:
            self._learned(tokens.access_token)
            self._learned(tokens.refresh_token)
            self._tokens = tokens
        return tokens

    def _current(self) -> LoginTokens:
        """The tokens of the file, refreshed if it is time."""
        tokens = self._load_tokens()
        if self._left(tokens) >= EARLY_SECONDS:
            return tokens
        try:
            return self._refresh(tokens.access_token)
        except ProviderError as error:
            # The remaining lifetime may suffice while the issuer can't be reached.
            if error.retryable and self._left(tokens) > 0:
                return tokens
            raise

    def _refresh(self, old: str) -> LoginTokens:
        try:
            with self._auth.lock():
                tokens = self._load_tokens()
                if tokens.access_token != old and self._left(tokens) >= EARLY_SECONDS:
                    return tokens
                refreshed = self._ask_issuer(tokens)
                self._auth.save(self._issuer.name, refreshed)
                return refreshed
        except TimeoutError as error:
            raise ProviderError(str(error), retryable=True) from error
        except UserError as error:
            raise ProviderError(str(error), retryable=False, hint=error.hint) from error
        except OSError as error:
            raise ProviderError(f"{self._auth.path}: {error.strerror}", retryable=False) from error

    def _ask_issuer(self, tokens: LoginTokens) -> LoginTokens:
        if not tokens.refresh_token:
            raise self._login_required("the login has expired")
        fields = {
            "grant_type": "refresh_token",
            "refresh_token": tokens.refresh_token,
            "client_id": self._issuer.client_id,
        }
        try:
            with open_client() as http:
                response = post_form(http, find_endpoints(self._issuer, http).token, fields)
                return read_tokens(response, refresh_token=tokens.refresh_token, now=self._clock())
        except LoginRefused as error:
            raise self._login_required("the login is no longer valid") from error

    def _load_tokens(self) -> LoginTokens:
        try:
            tokens = self._auth.read(self._issuer.name)
        except UserError as error:
            raise ProviderError(str(error), retryable=False, hint=error.hint) from error
        if tokens is None:
            raise self._login_required("you are not logged in")
        return tokens

    def _left(self, tokens: LoginTokens) -> float:
        return tokens.expires_at_unix - self._clock()

    def _login_required(self, why: str) -> ProviderError:
        return ProviderError(
            f"{why}; run `buddy login {self._profile}`", retryable=False, hint=f"buddy login {self._profile}"
        )

    def _account(self, tokens: LoginTokens) -> dict[str, str]:
        """OpenAI needs to know which of the person's accounts pays; the token itself contains it."""
        account = account_of(tokens.access_token) if self._issuer.is_openai else ""
        return {"chatgpt-account-id": account} if account else {}


class _OpenAI(Struct, frozen=True):
    chatgpt_account_id: str = ""


class _Claims(Struct, frozen=True):
    auth: _OpenAI = msgspec.field(default=_OpenAI(), name="https://api.openai.com/auth")


def account_of(access_token: str) -> str:
    """The account inside a JWT; empty if it is not one, or has none."""
    payload = [*access_token.split("."), ""][1]
    try:
        claims = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return msgspec.json.decode(claims, type=_Claims).auth.chatgpt_account_id
    except (ValueError, msgspec.DecodeError):
        return ""
