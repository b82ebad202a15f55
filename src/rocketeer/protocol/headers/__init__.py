"""The typed headers of requests and replies by subject, and the tables saying which code carries which."""

# ruff: noqa: F403, F405 - every header of these modules is to be had here

from collections.abc import Mapping
from types import MappingProxyType

from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.admin import *
from rocketeer.protocol.headers.base import *
from rocketeer.protocol.headers.clients import *
from rocketeer.protocol.headers.nameserver import *
from rocketeer.protocol.headers.offsets import *
from rocketeer.protocol.headers.pull import *
from rocketeer.protocol.headers.query import *
from rocketeer.protocol.headers.send import *
from rocketeer.protocol.headers.topics import *
from rocketeer.protocol.headers.transaction import *

REQUEST_HEADERS: Mapping[int, type[Header]] = MappingProxyType(
    {
        RequestCode.SEND_MESSAGE: SendMessageHeader,
        RequestCode.SEND_MESSAGE_V2: SendMessageV2Header,
        RequestCode.SEND_BATCH_MESSAGE: SendMessageV2Header,
        RequestCode.SEND_REPLY_MESSAGE: SendMessageHeader,
        RequestCode.SEND_REPLY_MESSAGE_V2: SendMessageV2Header,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: ReplyMessageHeader,
        RequestCode.CONSUMER_SEND_MSG_BACK: ConsumerSendMsgBackHeader,
        RequestCode.GET_PRODUCER_SEQUENCE: GetProducerSequenceHeader,
        RequestCode.PULL_MESSAGE: PullMessageHeader,
        RequestCode.QUERY_MESSAGE: QueryMessageHeader,
        RequestCode.VIEW_MESSAGE_BY_ID: ViewMessageHeader,
        RequestCode.QUERY_CONSUMER_OFFSET: QueryConsumerOffsetHeader,
        RequestCode.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffsetHeader,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffsetHeader,
        RequestCode.GET_MAX_OFFSET: GetMaxOffsetHeader,
        RequestCode.GET_MIN_OFFSET: GetMinOffsetHeader,
        RequestCode.GET_EARLIEST_MSG_STORETIME: EarliestStoreTimeHeader,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET: ResetOffsetHeader,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: GetConsumerStatusHeader,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetHeader,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: GetConsumerStatusHeader,
        RequestCode.CLONE_GROUP_OFFSET: CloneGroupOffsetHeader,
        RequestCode.QUERY_CORRECTION_OFFSET: QueryCorrectionOffsetHeader,
        RequestCode.UNREGISTER_CLIENT: UnregisterClientHeader,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: GetConsumerListHeader,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: NotifyConsumerIdsChangedHeader,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: GetConsumerConnectionsHeader,
        RequestCode.GET_PRODUCER_CONNECTION_LIST: GetProducerConnectionsHeader,
        RequestCode.GET_CONSUMER_RUNNING_INFO: GetConsumerRunningInfoHeader,
        RequestCode.CONSUME_MESSAGE_DIRECTLY: ConsumeMessageDirectlyHeader,
        RequestCode.UPDATE_AND_CREATE_TOPIC: CreateTopicHeader,
        RequestCode.DELETE_TOPIC_IN_BROKER: DeleteTopicHeader,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: DeleteSubscriptionGroupHeader,
        RequestCode.GET_TOPIC_STATS_INFO: GetTopicStatsHeader,
        RequestCode.GET_CONSUME_STATS: GetConsumeStatsHeader,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: QueryTopicConsumersHeader,
        RequestCode.QUERY_CONSUME_TIME_SPAN: QueryConsumeTimeSpanHeader,
        RequestCode.QUERY_CONSUME_QUEUE: QueryConsumeQueueHeader,
        RequestCode.PUT_KV_CONFIG: PutKvConfigHeader,
        RequestCode.GET_KV_CONFIG: GetKvConfigHeader,
        RequestCode.DELETE_KV_CONFIG: DeleteKvConfigHeader,
        RequestCode.GET_KVLIST_BY_NAMESPACE: GetKvListHeader,
        RequestCode.REGISTER_BROKER: RegisterBrokerHeader,
        RequestCode.UNREGISTER_BROKER: UnregisterBrokerHeader,
        RequestCode.QUERY_DATA_VERSION: QueryDataVersionHeader,
        RequestCode.GET_ROUTEINFO_BY_TOPIC: GetRouteHeader,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: WipeWritePermHeader,
        RequestCode.ADD_WRITE_PERM_OF_BROKER: AddWritePermHeader,
        RequestCode.DELETE_TOPIC_IN_NAMESRV: DeleteTopicInNamesrvHeader,
        RequestCode.GET_TOPICS_BY_CLUSTER: GetTopicsByClusterHeader,
        RequestCode.END_TRANSACTION: EndTransactionHeader,
        RequestCode.CHECK_TRANSACTION_STATE: CheckTransactionStateHeader,
        RequestCode.RESUME_CHECK_HALF_MESSAGE: ResumeCheckHalfMessageHeader,
        RequestCode.VIEW_BROKER_STATS_DATA: ViewBrokerStatsHeader,
        RequestCode.GET_BROKER_CONSUME_STATS: GetBrokerConsumeStatsHeader,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: UpdateAclConfigHeader,
        RequestCode.DELETE_ACL_CONFIG: DeleteAclConfigHeader,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: UpdateGlobalWhiteAddressesHeader,
        RequestCode.SWITCH_LEADER: SwitchLeaderHeader,
    }
)

# By the code of the request they answer.
REPLY_HEADERS: Mapping[int, type[Header]] = MappingProxyType(
    {
        RequestCode.SEND_MESSAGE: SendMessageReplyHeader,
        RequestCode.SEND_MESSAGE_V2: SendMessageReplyHeader,
        RequestCode.SEND_BATCH_MESSAGE: SendMessageReplyHeader,
        RequestCode.SEND_REPLY_MESSAGE: SendMessageReplyHeader,
        RequestCode.SEND_REPLY_MESSAGE_V2: SendMessageReplyHeader,
        RequestCode.GET_PRODUCER_SEQUENCE: GetProducerSequenceReplyHeader,
        RequestCode.PULL_MESSAGE: PullMessageReplyHeader,
        RequestCode.QUERY_MESSAGE: QueryMessageReplyHeader,
        RequestCode.QUERY_CONSUMER_OFFSET: OffsetReplyHeader,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: OffsetReplyHeader,
        RequestCode.GET_MAX_OFFSET: OffsetReplyHeader,
        RequestCode.GET_MIN_OFFSET: OffsetReplyHeader,
        RequestCode.GET_EARLIEST_MSG_STORETIME: EarliestStoreTimeReplyHeader,
        RequestCode.GET_BROKER_CONFIG: GetBrokerConfigReplyHeader,
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO: AclVersionReplyHeader,
        RequestCode.GET_KV_CONFIG: GetKvConfigReplyHeader,
        RequestCode.REGISTER_BROKER: RegisterBrokerReplyHeader,
        RequestCode.QUERY_DATA_VERSION: QueryDataVersionReplyHeader,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: WipeWritePermReplyHeader,
        RequestCode.ADD_WRITE_PERM_OF_BROKER: AddWritePermReplyHeader,
    }
)
