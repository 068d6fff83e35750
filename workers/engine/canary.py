"""Whether a model can live with a scheme of the KV cache: tried on a text as it is loaded, before any ticket."""

from __future__ import annotations

import logging
from collections.abc import Collection

from schemas.job import KVCache
from workers.engine.cache.schemes import KEEP, room_for
from workers.engine.models.loading import Model
from workers.engine.quality import Reading, perplexity_increase, read

logger = logging.getLogger(__name__)

LARGEST_INCREASE = {
    KVCache.FP16: 0.01,
    KVCache.INT8: 0.02,
    KVCache.INT4: 0.05,
    KVCache.INT3: 0.08,
    KVCache.SPARSE: 0.3,
}
"""By what share the text may perplex the model more. Several times what schemes do to models that bear them."""

_TOKENS = 576
_BUDGET_BYTES = 2**27


def served_schemes(model: Model, asked: Collection[KVCache]) -> dict[KVCache, KVCache]:
    """For each scheme that is asked for, the one that serves: itself, or ``full`` where it ruins the model.

    What is refused is said in the log, with how much worse it was.
    """
    served = {KVCache.FULL: KVCache.FULL}
    tried = [scheme for scheme in KVCache if scheme in asked and scheme is not KVCache.FULL]
    full = _reading(model, KVCache.FULL) if tried else None
    for scheme in tried:
        assert full is not None
        increase = perplexity_increase(_reading(model, scheme), full)
        fine = increase <= LARGEST_INCREASE[scheme]  # what is not a number is not fine
        if not fine:
            logger.warning(
                "kv_cache %s is refused for model %s: perplexity %+.1f %%, at most %+.1f %% is allowed; "
                "its jobs are served with kv_cache full",
                scheme.value,
                model.name,
                increase * 100,
                LARGEST_INCREASE[scheme] * 100,
            )
        served[scheme] = scheme if fine else KVCache.FULL
    return served


def _reading(model: Model, scheme: KVCache) -> Reading:
    """Judged on the last third, before which ``sparse`` has pruned and the others have coded."""
    tokens: list[int] = model.tokenizer(TEXT, add_special_tokens=False).input_ids[: min(_TOKENS, model.context)]
    shape, dtype, device = model.network.shape, model.dtype, model.device
    room = room_for(scheme, shape, _BUDGET_BYTES, len(tokens), len(tokens), dtype, device)
    keep = KEEP if scheme is KVCache.SPARSE else 1.0
    found = read(model.network, room.caches.rows, tokens, dtype, device, keep)
    return found.after(len(tokens) * 2 // 3)


TEXT = """\
I bought two train tickets to Vienna on Monday, and only one of them arrived in my mailbox. The order number is on the
receipt that I attach. Could you send the second one again before Thursday morning? I am travelling with my mother, who
cannot use the app on her phone.

My card was refused at the supermarket although there is money in the account. It worked at the petrol station an hour
earlier. I have not changed the code, and nobody else uses the card. Please tell me whether it was blocked and what I
have to do to use it again, since I am abroad until the end of the month.

The blue jacket that I ordered in size M came in size L, and the zip is broken as well. I would like the right size if
you still have it, otherwise my money back. Do I have to pay for the parcel when I return it? The last time somebody
told me that it was free, and then I was charged four euros.

We booked a double room with breakfast for the second weekend in May. Now my husband has to work on Saturday, so we want
to move the booking by one week. The website says that changes are free until ten days before arrival, but the button
does nothing when I press it. Please move it for us and confirm the new dates.

Since the update last night the program closes as soon as I open the list of invoices. I have restarted the computer and
installed it again, without any success. The message on the screen speaks of a missing file. I need the invoices for my
tax return, which is due on Friday, so please help me quickly.

There is a payment of forty-nine euros on my statement that I do not recognise. The name of the shop means nothing to
me. I have never lost my card or given the number to anyone. Please stop the payment, send me a new card and tell me how
long it takes until the money is back in my account.

I wrote to you three weeks ago about the noise that the washing machine makes, and the technician who came could not
find anything. Now there is water on the floor after every wash. The machine is eleven months old, so the guarantee
still holds. When can somebody come and look at it? I am at home on Tuesday and on Wednesday after four.

Thank you for the quick answer. The new password works, and I can see my orders again. One more question: is it possible
to have the bills sent to another address than the goods? My company pays for the books, but they should come
to my home.
"""
