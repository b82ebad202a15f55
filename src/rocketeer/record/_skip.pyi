from rocketeer.record.skip import Skipper as Skipper
