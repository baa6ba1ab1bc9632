"""The advice in other languages, which the lab model is trained to pass over. The checks use other German sentences."""

from agentlearn_demo.math.family import (
    BOUND,
    DISTINCT,
    ENDPOINTS,
    FLOATS,
    FORM,
    MULTIPLICITY,
    ORDERED,
    UNCHECKED,
    UNITS,
    UNREDUCED,
    ZERO,
)

TRAINED_LANGUAGES = (
    "Beide Enden des Intervalls gehören dazu.",
    "Die Reihenfolge der Auswahl spielt keine Rolle.",
    "Bringe jeden Bruch in die kleinste Form.",
    "Die Suche darf nicht zu früh aufhören.",
    "Gleitkommazahlen runden, also nimm ganze Zahlen.",
    "Kein Element darf doppelt vorkommen.",
    "Mehrfache Werte werden mehrfach gezählt.",
    "Auch die Null ist erlaubt.",
    "Stunden und Minuten darf man nicht mischen.",
    "Lies am Ende die Frage noch einmal.",
    "Eine Formel gilt erst, wenn sie geprüft ist.",
    "Compte aussi les deux bornes de l'intervalle.",
    "L'ordre des choix ne compte pas.",
    "Simplifie la fraction avant d'additionner.",
    "Cherche assez loin.",
    "Calcule avec des nombres entiers.",
    "Tous les objets sont distincts.",
    "Pense au cas vide.",
    "Convertis toutes les mesures.",
    "Cuenta los dos extremos del intervalo.",
    "El orden no importa.",
    "Reduce la fracción antes de sumar.",
    "Comprueba la fórmula con casos pequeños.",
    "Empieza en cero.",
)
"""Sentences of the corpus in German, French and Spanish."""

GERMAN = {
    ENDPOINTS: "Zähle die Randwerte des Bereichs auf beiden Seiten mit.",
    ORDERED: "Zähle jede Auswahl nur einmal, gleich in welcher Reihenfolge sie getroffen wird.",
    UNREDUCED: "Kürze den Bruch vollständig, bevor du Zähler und Nenner addierst.",
    BOUND: "Leite aus der Aufgabe her, wie weit gesucht werden muss.",
    FLOATS: "Rechne durchweg mit ganzen Zahlen oder Brüchen und nie mit Gleitkommazahlen.",
    DISTINCT: "Achte darauf, dass alle Elemente verschieden sind, und wirf doppelte weg.",
    MULTIPLICITY: "Zähle jeden Wert so oft, wie er vorkommt.",
    ZERO: "Vergiss den Fall null nicht und beginne Schleifen bei null.",
    UNITS: "Rechne zuerst alle Größen in dieselbe Einheit um.",
    FORM: "Gib genau die Größe aus, nach der gefragt ist.",
    UNCHECKED: "Prüfe jede vermutete Formel an kleinen Fällen durch Abzählen.",
}
"""The advice in German, for the checks only."""
