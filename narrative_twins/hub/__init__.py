"""Sharing on the Hugging Face Hub: cards, and uploads of encoders and data sets."""

from narrative_twins.extras import check_extra as _check_extra

_check_extra("train")

from narrative_twins.hub.facts import DatasetFacts as DatasetFacts
from narrative_twins.hub.facts import EncoderFacts as EncoderFacts
from narrative_twins.hub.facts import Figure as Figure
from narrative_twins.hub.facts import read_facts as read_facts
from narrative_twins.hub.push import HubError as HubError
from narrative_twins.hub.push import full_id as full_id
from narrative_twins.hub.push import push_dataset as push_dataset
from narrative_twins.hub.push import push_encoder as push_encoder
