"""Naive references to compare the package with, which share no code with it. For salience every
variant is written out as text, tokenized and encoded on its own."""

import torch
import torch.nn.functional as F


def tokens_of(tokenizer, sentences, prompt=""):
    """Token ids of the text of `sentences` after a prompt, and the index of the sentence of each
    token, None for special tokens and the prompt's."""
    text = prompt
    spans = [(0, len(prompt.rstrip()))]
    for number, sentence in enumerate(sentences):
        text += " " if number else ""
        spans.append((len(text), len(text) + len(sentence)))
        text += sentence
    encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    owners = []
    for (start, end), special in zip(
        encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True
    ):
        overlaps = [max(0, min(end, hi) - max(start, lo)) for lo, hi in spans]
        if max(overlaps) == 0:  # the space between two sentences
            overlaps = [1 if lo == end else 0 for lo, hi in spans]
        owner = overlaps.index(max(overlaps)) - 1
        owners.append(None if special or owner < 0 else owner)
    return encoded["input_ids"], owners


class Oracle:
    """Scores one story at a time with a `transformers` model and its fast tokenizer; the story must
    fit the context. `measure` is a name in `MEASURES`."""

    def __init__(
        self, model, tokenizer, pooling="mean", measure="cosine", prompt="", include_prompt=True
    ):
        self.model, self.tokenizer, self.pooling = model.eval(), tokenizer, pooling
        self.measure, self.prompts = measure, (prompt, include_prompt)

    def similarity(self, a, b):
        return MEASURES[self.measure](a.double(), b.double())

    def change(self, a, b):
        """How much less similar a is to b than to itself."""
        itself = 1.0 if self.measure == "cosine" else self.similarity(a, a)
        return itself - self.similarity(a, b)

    def embed(self, sentences, windows, window):
        """The vector of `window` in the text of `sentences`; `windows` has the window of each
        sentence. All tokens are pooled if `window` is None."""
        with torch.no_grad():
            what = sentences, windows, window, self.pooling
            vector = window_vector(self.model, self.tokenizer, *what, *self.prompts)
        assert vector is not None, "nothing to pool"
        return vector

    def score(self, sentences, spans):
        """`{operation: [float]}` for a story with the windows `spans`."""
        n = len(sentences)
        window_of = [w for w, (lo, hi) in enumerate(spans) for _ in range(lo, hi)]
        scores = {
            name: [0.0] * n for name in ("deletion", "shifting", "disruption", "summarization")
        }
        for w, (lo, hi) in enumerate(spans):
            pooled = None if len(spans) == 1 else w

            def vector(order, pooled=pooled):
                return self.embed(
                    [sentences[j] for j in order], [window_of[j] for j in order], pooled
                )

            base = vector(range(n))
            for i in range(lo, hi):
                scores["summarization"][i] = self.similarity(base, vector([i]))
                if hi - lo == 1:
                    continue
                without = [j for j in range(n) if j != i]
                scores["deletion"][i] = self.change(base, vector(without))
                moved = []
                for position in range(lo, hi):
                    if position != i:
                        order = list(without)
                        order.insert(position, i)
                        moved.append(self.change(base, vector(order)))
                scores["shifting"][i] = sum(moved) / len(moved)
                if i > lo:
                    scores["disruption"][i] = self.change(vector(range(i + 1)), vector(range(i)))
        return scores

    def score_one_pass(self, sentences, spans):
        """The approximate scores from the token states of one pass over the story."""
        n = len(sentences)
        ids, owners = tokens_of(self.tokenizer, sentences, self.prompts[0])
        with torch.no_grad():
            states = self.model(input_ids=torch.tensor([ids])).last_hidden_state[0].double()
        scores = {
            name: [0.0] * n for name in ("deletion", "shifting", "disruption", "summarization")
        }
        for lo, hi in spans:
            # Special tokens (None) are pooled only if the story is a single window.
            pooled = [*range(lo, hi), *([None] if len(spans) == 1 else [])]

            def mean(owners_pooled):
                chosen = [
                    state
                    for state, owner in zip(states, owners, strict=True)
                    if owner in owners_pooled
                ]
                return sum(chosen) / len(chosen)

            for i in range(lo, hi):
                scores["summarization"][i] = self.similarity(mean(pooled), mean([i]))
                if hi - lo > 1:
                    without = [own for own in pooled if own != i]
                    scores["deletion"][i] = self.change(mean(pooled), mean(without))
                    scores["shifting"][i] = self.moved(states, owners, pooled, (lo, hi), i)
                if i > lo:
                    prefix = [own for own in pooled if own is None or own <= i]
                    before = [own for own in prefix if own != i]
                    scores["disruption"][i] = self.change(mean(prefix), mean(before))
        return scores

    def moved(self, states, owners, pooled, window, i):
        """Shifting of sentence i in one pass: each token counts for 0.4 times more with each place
        that its sentence is moved to the end."""
        lo, hi = window
        sums = {
            own: sum(state for state, owner in zip(states, owners, strict=True) if owner == own)
            for own in pooled
        }
        story = sum(sums.values())
        if self.measure == "cosine":
            return moved_by_place([sums[own] for own in range(lo, hi)], story, i - lo)
        counts = {own: owners.count(own) for own in pooled}
        changes = []
        for place in (place for place in range(lo, hi) if place != i):
            order = [own for own in range(lo, hi) if own != i]
            order.insert(place - lo, i)
            weights = {own: 1 + 0.4 * (order.index(own) - own + lo) for own in order} | {None: 1.0}
            moved = sum(weights[own] * sums[own] for own in pooled)
            moved /= sum(weights[own] * counts[own] for own in pooled)
            changes.append(self.change(story / sum(counts.values()), moved))
        return sum(changes) / len(changes)


def moved_by_place(sums, story, moved):
    """The mean change of a story, in which each sentence counts for 0.4 times more with each place,
    over the other places of a sentence, at most 50 away."""
    changes = []
    for place in range(len(sums)):
        if place == moved or abs(place - moved) > 50:
            continue
        order = [i for i in range(len(sums)) if i != moved]
        order.insert(place, moved)
        change = sum((order.index(i) - i) * 0.4 * sums[i] for i in range(len(sums)))
        along = (change @ story) / (story @ story) * story
        across = change - along
        changes.append((across @ across / (story @ story) / 2).item())
    return sum(changes) / len(changes)


def similarity(a, b):
    return F.cosine_similarity(a.double(), b.double(), dim=0).item()


MEASURES = {
    "cosine": similarity,
    "dot": lambda a, b: (a @ b).item(),
    "euclidean": lambda a, b: -torch.dist(a, b).item(),
}


def cosine(a, b):
    return (a * b).sum() / ((a * a).sum().sqrt() * (b * b).sum().sqrt())


def window_vector(
    model, tokenizer, sentences, windows, window, pooling, prompt="", include_prompt=True
):
    """The vector of a window of a text, or of the complete text if `window` is None; None if there
    is no token."""
    ids, owners = tokens_of(tokenizer, sentences, prompt)
    states = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    left_out = 0
    if prompt and not include_prompt and window is None:
        alone = tokenizer(prompt, return_special_tokens_mask=True)
        left_out = len(alone["input_ids"]) - alone["special_tokens_mask"][-1]
    own = [
        (t + 1, states[t])
        for t, owner in enumerate(owners)
        if t >= left_out and (window is None or (owner is not None and windows[owner] == window))
    ]
    if not own:
        return None
    if pooling == "weightedmean":
        return sum(place * state for place, state in own) / sum(place for place, _ in own)
    states = [state for _, state in own]
    only = {"first": states[0], "lasttoken": states[-1]}
    return only[pooling] if pooling in only else sum(states) / len(states)
