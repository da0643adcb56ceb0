"""The endpoints, as a Starlette app: who may ask, what is asked, how it is answered."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Literal, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.engine.client.supervisor import EngineState
from app.engine.prompts.media_taken import why_not_taken
from app.engine.protocol.bounds import shown_text
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import MediaKind
from app.engine.protocol.messages import (
    Command,
    CountPrompt,
    Failed,
    Finished,
    PromptCount,
    ReadVocabulary,
    Result,
    Stopped,
    Summary,
    Tokenize,
    Tokens,
    VocabularyTable,
)
from app.engine.protocol.pieces import Pieces
from app.engine.protocol.pooling_messages import EmbedTexts, TextsEmbedded
from app.engine.protocol.prompt_messages import PromptShown, ReadPrompt
from app.engine.protocol.remote_messages import engine_and_model
from app.engine.protocol.thinking_messages import ReadThinking, ThinkingOffer
from app.server.answering import Client, Form, answer, send_json
from app.server.anthropic_forms import MessageForm
from app.server.anthropic_reading import read_anthropic, wants_offer
from app.server.asking import Asked, check_length, check_model, model_name
from app.server.embeddings import read_inputs, told
from app.server.errors import NO_MODEL, ApiError, of_failure
from app.server.exchange import Exchange
from app.server.fields import Fields, is_id
from app.server.guard import check_sender, cors_headers, read_object
from app.server.known_replies import KnownReplies
from app.server.openai_forms import ChatForm, TextForm
from app.server.openai_reading import (
    Context,
    read_chat,
    read_completion,
)
from app.server.options import ANY_NAME, ServerOptions
from app.server.replying import Replies, TooSlow

R = TypeVar("R", bound=Result)
_log = logging.getLogger(__name__)
MAX_TEXT: Final = 500_000
"""Characters that are tokenised, or tokens that are spelled, at once: somebody else waits."""

_FAULT: Final = "Something went wrong in Cutaway's server. The log has the details."

Wake = Callable[[], Future[str]]
"""Has a model loaded, if none is: done with nothing, or with a sentence why not."""

Handler = Callable[[Any, Exchange, Client], Coroutine[Any, Any, None]]
"""Answers a request: its JSON (of GET: what its path names), its record, where the answer goes."""


class Service:
    """What answers. Lives on the server's loop."""

    def __init__(
        self,
        replies: Replies,
        options: ServerOptions,
        told: Callable[[Exchange], None],
        wake: Wake | None = None,
    ) -> None:
        self._replies = replies
        self._options = options
        self._told = told
        self._wake = wake
        self._known = KnownReplies()
        self._pieces: tuple[Loaded, Pieces] | None = None
        self._latest: Loaded | None = None
        self._started = int(time.time())

    def app(self) -> Starlette:
        """The routes. Whatever else is asked for is refused in words."""
        posts: dict[str, Handler] = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._complete,
            "/v1/embeddings": self._embed,
            "/v1/messages": self._message,
            "/v1/messages/count_tokens": self._count,
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
            "/apply-template": self._apply_template,
        }
        gets: dict[str, Handler] = {
            "/v1/models": self._list_models,
            "/v1/models/{name:path}": self._show_model,
            "/health": self._health,
        }
        routes = [Route(path, _Endpoint(self, "POST", h)) for path, h in posts.items()]
        routes += [Route(path, _Endpoint(self, "GET", h)) for path, h in gets.items()]
        app = Starlette(routes=routes)
        app.router.redirect_slashes = False
        app.router.default = _Endpoint(self, "", _not_found)
        return app

    # --- one request ----------------------------------------------------------------------------

    async def serve(self, method: str, handler: Handler, request: Request, send: Send) -> None:
        """Answer by `handler`, until the client goes."""
        exchange = Exchange(shown_text(request.scope["path"]), _who(request))
        abort = request.scope["state"].get("abort", _nothing)
        client = Client(send, self._options.limits, abort)
        try:
            is_preflight = request.method == "OPTIONS"
            check_sender(request.headers, self._options, is_preflight=is_preflight)
            client.headers = cors_headers(request.headers, self._options)
            if is_preflight:
                exchange.status = 204
                await client.begin(204, [])
                await client.put(b"", more=False)
                return
            if method and request.method != method:
                raise ApiError(405, f"{request.url.path} is asked for with {method}.")
            value: Any = request.path_params.get("name")
            if method == "POST":
                value, exchange.body = await read_object(request, self._options.limits)
            work = self._answer(method, handler, value, exchange, client)
            await _until_gone(work, request.receive)
        except ApiError as error:
            await self._refuse(exchange, client, error)
        except (ClientDisconnect, TooSlow):
            exchange.is_gone = True
        except Exception:  # noqa: BLE001 - a fault of ours ends this request alone
            _log.exception("a fault at %s", exchange.endpoint)
            await self._refuse(exchange, client, ApiError(500, _FAULT))
        finally:
            exchange.end()
            if exchange.endpoint not in _QUIET:
                self._told(exchange)

    async def _answer(
        self, method: str, handler: Handler, value: Any, exchange: Exchange, client: Client
    ) -> None:
        if method == "POST":
            await self._wake_up()
        await handler(value, exchange, client)

    async def _wake_up(self) -> None:
        """Have a model loaded, where somebody does that. Raises ApiError."""
        if self._wake is None or self._replies.engine.loaded is not None:
            return
        sentence = await asyncio.wrap_future(self._wake())
        if sentence:
            raise ApiError(503, sentence, code="not_loaded", retry_after_s=5)

    async def _refuse(self, exchange: Exchange, client: Client, error: ApiError) -> None:
        exchange.sentence = error.sentence
        if client.has_begun:  # too late to say so in the form
            client.drop()
            return
        exchange.status = error.status
        with suppress(TooSlow):
            body = error.body(exchange.endpoint)
            await send_json(client, body, error.status, error.headers)

    async def _reply(
        self,
        exchange: Exchange,
        client: Client,
        asked: Asked,
        form: Form,
        loaded: Loaded,
    ) -> None:
        def note(summary: Summary) -> None:
            self._known.note(loaded.fast_hash, summary)

        await answer(self._replies, exchange, asked, form, client, noted=note)
        exchange.status = 200

    async def _ask(self, exchange: Exchange, command: Command, kind: type[R]) -> R:
        """The answer to a question. Raises ApiError."""
        job = self._replies.ask(exchange, [command])
        try:
            while True:
                for _, event in await job.next():
                    if isinstance(event, Failed):
                        raise of_failure(event)
                    if isinstance(event, Stopped):
                        raise ApiError(503, self._replies.why_stopped(event.result))
                    if isinstance(event, Finished) and isinstance(event.result, kind):
                        return event.result
        finally:
            job.leave()

    async def _vocabulary(self, exchange: Exchange, loaded: Loaded) -> Pieces:
        if self._pieces is None or self._pieces[0] is not loaded:
            table = await self._ask(exchange, ReadVocabulary(0), VocabularyTable)
            self._pieces = (loaded, Pieces(table))
        return self._pieces[1]

    async def _pieces_for(self, asked: Asked, exchange: Exchange, loaded: Loaded) -> Pieces | None:
        if asked.scores is None or loaded.remote is not None:
            return None
        return await self._vocabulary(exchange, loaded)

    async def _send(self, exchange: Exchange, client: Client, value: object) -> None:
        exchange.status = 200
        await send_json(client, value)

    @property
    def _loaded(self) -> Loaded | None:
        """The loaded weights; after a crash, and while they load again, those that they were."""
        engine = self._replies.engine
        loaded = engine.loaded
        if loaded is None and engine.state is not EngineState.STOPPED:
            return self._latest
        self._latest = loaded
        return loaded

    def _named_by(self, fields: Fields, exchange: Exchange) -> Loaded:
        exchange.model = shown_text(fields.text("model"))
        return check_model(fields, self._loaded, self._options.names)

    def _context(self, loaded: Loaded) -> Context:
        return Context(loaded, self._options, self._known)

    # --- replies --------------------------------------------------------------------------------

    async def _chat(self, value: Any, exchange: Exchange, client: Client) -> None:
        fields = Fields(value)
        loaded = self._named_by(fields, exchange)
        asked = read_chat(fields, self._context(loaded), await self._offer(fields, exchange))
        pieces = await self._pieces_for(asked, exchange, loaded)
        await self._reply(exchange, client, asked, ChatForm(asked, pieces), loaded)

    async def _complete(self, value: Any, exchange: Exchange, client: Client) -> None:
        fields = Fields(value)
        loaded = self._named_by(fields, exchange)
        asked = read_completion(fields, self._context(loaded))
        pieces = await self._pieces_for(asked, exchange, loaded)
        await self._reply(exchange, client, asked, TextForm(asked, pieces), loaded)

    async def _message(self, value: Any, exchange: Exchange, client: Client) -> None:
        fields = Fields(value)
        loaded = self._named_by(fields, exchange)
        asked = read_anthropic(fields, self._context(loaded), await self._offer(fields, exchange))
        await self._reply(exchange, client, asked, MessageForm(asked), loaded)

    async def _count(self, value: Any, exchange: Exchange, client: Client) -> None:
        fields = Fields(value)
        loaded = self._named_by(fields, exchange)
        offer = await self._offer(fields, exchange)
        asked = read_anthropic(fields, self._context(loaded), offer, is_counted=True)
        count = await self._ask(exchange, CountPrompt(0, asked.generates[0].prompt), PromptCount)
        exchange.model, exchange.prompt_tokens = asked.model, count.n_tokens
        await self._send(exchange, client, {"input_tokens": count.n_tokens})

    async def _embed(self, value: Any, exchange: Exchange, client: Client) -> None:
        fields = Fields(value)
        loaded = self._named_by(fields, exchange)
        inputs, is_base64 = read_inputs(fields)
        for each in inputs:
            of: Literal["characters", "tokens"] = (
                "characters" if isinstance(each, str) else "tokens"
            )
            check_length(len(each), loaded.n_ctx, of=of)
        ids = [await self._ids(exchange, each) for each in inputs]
        exchange.model = model_name(loaded)
        exchange.prompt_tokens = sum(map(len, ids))
        found = await self._ask(exchange, EmbedTexts(0, ids), TextsEmbedded)
        answer = told(found, exchange.model, exchange.prompt_tokens, is_base64=is_base64)
        await self._send(exchange, client, answer)

    async def _ids(self, exchange: Exchange, text: str | list[int]) -> list[int]:
        if not isinstance(text, str):
            return text
        asked = Tokenize(0, text, add_special=True)
        return (await self._ask(exchange, asked, Tokens)).token_ids

    async def _offer(self, fields: Fields, exchange: Exchange) -> ThinkingOffer | None:
        if not wants_offer(fields):
            return None
        return await self._ask(exchange, ReadThinking(0), ThinkingOffer)

    # --- models ---------------------------------------------------------------------------------

    async def _list_models(self, _: Any, exchange: Exchange, client: Client) -> None:
        loaded = self._loaded
        found: list[dict[str, Any]] = []
        if loaded is not None:
            more = [name for name in self._options.names if name != ANY_NAME]
            found = [self._model(loaded, name) for name in (model_name(loaded), *more)]
        ends = {"first_id": found[0]["id"], "last_id": found[-1]["id"]} if found else {}
        await self._send(
            exchange, client, {"object": "list", "data": found, "has_more": False, **ends}
        )

    async def _show_model(self, name: str, exchange: Exchange, client: Client) -> None:
        loaded = self._named_by(Fields({"model": name}), exchange)
        await self._send(exchange, client, self._model(loaded, model_name(loaded)))

    def _model(self, loaded: Loaded, name: str) -> dict[str, Any]:
        """Under this name, in OpenAI's form and Anthropic's at once: their fields do not meet."""
        meta = {
            "n_vocab": loaded.n_vocab,
            "n_ctx": loaded.n_ctx,
            "n_ctx_train": loaded.n_ctx_train,
            "n_embd": loaded.n_embd,
            "n_params": loaded.n_params,
            "size": loaded.size_bytes,
        }  # of a model elsewhere some are unknown
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started))
        return {
            "id": name,
            "object": "model",
            "created": self._started,
            "owned_by": "cutaway",
            "type": "model",
            "display_name": loaded.name or model_name(loaded),
            "created_at": created,
            "meta": {name: number for name, number in meta.items() if number},
            **_input_of(loaded),
        }

    # --- llama-server's own ---------------------------------------------------------------------

    async def _health(self, _: Any, exchange: Exchange, client: Client) -> None:
        if self._loaded is None:
            raise ApiError(503, NO_MODEL, code="not_loaded")
        await self._send(exchange, client, {"status": "ok"})

    async def _tokenize(self, value: Any, exchange: Exchange, client: Client) -> None:
        fields = Fields(value)
        text, add_special = fields.text("content", most=MAX_TEXT), fields.flag("add_special")
        fields.only("parse_special", (False,), "Text never becomes control tokens here.")
        with_pieces = fields.flag("with_pieces")
        fields.close()
        found = await self._ask(exchange, Tokenize(0, text, add_special=add_special), Tokens)
        tokens: list[Any] = list(found.token_ids)
        if with_pieces:
            tokens = [
                {"id": number, "piece": _shown_piece(piece)}
                for number, piece in zip(found.token_ids, found.pieces, strict=True)
            ]
        await self._send(exchange, client, {"tokens": tokens})

    async def _detokenize(self, value: Any, exchange: Exchange, client: Client) -> None:
        fields = Fields(value)
        ids = fields.entries("tokens", most=MAX_TEXT)
        fields.close()
        loaded = self._named_by(Fields({}), exchange)
        pieces = await self._vocabulary(exchange, loaded)
        if not all(is_id(i) and i < len(pieces) for i in ids):
            sentence = f"tokens must hold token IDs, 0 to {len(pieces) - 1:,}."
            raise fields.refuse("tokens", sentence)
        text = b"".join(pieces.piece(i) for i in ids).decode("utf-8", "replace")
        await self._send(exchange, client, {"content": text})

    async def _apply_template(self, value: Any, exchange: Exchange, client: Client) -> None:
        fields = Fields(value)
        loaded = self._named_by(fields, exchange)
        asked = read_chat(fields, self._context(loaded), None)
        prompt = asked.generates[0].prompt
        shown = await self._ask(exchange, ReadPrompt(0, prompt), PromptShown)
        await self._send(exchange, client, {"prompt": shown.rendered})


class _Endpoint:
    """A route of the app, as ASGI."""

    def __init__(self, service: Service, method: str, handler: Handler) -> None:
        self._service = service
        self._method = method
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._service.serve(self._method, self._handler, Request(scope, receive), send)


async def _until_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do the work; a client that goes meanwhile ends it (ClientDisconnect)."""
    doing = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        await doing
    finally:
        for each in (doing, gone):
            each.cancel()
        await asyncio.gather(doing, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _not_found(_: Any, exchange: Exchange, client: Client) -> None:
    raise ApiError(404, "There is nothing at this path. The server's paths begin with /v1/.")


_QUIET: Final = ("/health",)
"""Asked for again and again by programs that watch: not worth a line."""


def _nothing() -> None:
    pass


def _who(request: Request) -> str:
    """Address and program, as they say it themselves: nobody may trust it."""
    host = request.client.host if request.client is not None else ""
    agent = request.headers.get("user-agent", "").split(" ")[0][:60]
    return " ".join(filter(None, [host, shown_text(agent)]))


def _input_of(loaded: Loaded) -> dict[str, Any]:
    """What the model takes, in OpenRouter's form; nothing where a server elsewhere doesn't say."""
    files: tuple[MediaKind, ...] = ("image", "audio")
    if loaded.remote is None:
        found = ["text", *(kind for kind in files if not why_not_taken(loaded, kind))]
    else:
        model_id = engine_and_model(loaded.path)[1]
        model = next((each for each in loaded.remote.models if each.id == model_id), None)
        if model is None or model.has_images is None:
            return {}
        says = (model.has_images, model.has_audio)
        found = ["text", *(kind for kind, can in zip(files, says, strict=True) if can)]
    return {"architecture": {"input_modalities": found, "output_modalities": ["text"]}}


def _shown_piece(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)
