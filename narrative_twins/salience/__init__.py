"""Salience: what to embed (operations, plans), the engine that scores, the result."""

from narrative_twins.salience.buffer import OnError as OnError
from narrative_twins.salience.buffer import OnTruncation as OnTruncation
from narrative_twins.salience.engine import score_stories as score_stories
from narrative_twins.salience.operations import OPERATIONS as OPERATIONS
from narrative_twins.salience.operations import Operation as Operation
from narrative_twins.salience.operations import cosine as cosine
from narrative_twins.salience.operations import register_operation as register_operation
from narrative_twins.salience.plans import Approximation as Approximation
from narrative_twins.salience.result import SalientSentence as SalientSentence
from narrative_twins.salience.result import StorySalience as StorySalience
